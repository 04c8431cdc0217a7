"""Translation of the environments and rewards into other libraries."""
