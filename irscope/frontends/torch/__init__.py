"""How are TorchScript and torch.export programs read?"""
