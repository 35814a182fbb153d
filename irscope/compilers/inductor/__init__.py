"""What did torch.compile decide, here or in a job that ran elsewhere?"""
