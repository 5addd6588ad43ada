"""Training: a plain loop on torch.distributed that survives interruptions bit for bit.

Modules that import torch at their head are those of the worker; `launcher`, `outcome`, `local_files` and `stop` are
light.
"""
