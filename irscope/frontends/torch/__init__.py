"""How do TorchScript and torch.export programs get in?"""
