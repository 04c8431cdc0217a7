"""The commands of `vagen`, a file each."""
