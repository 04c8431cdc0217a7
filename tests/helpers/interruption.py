"""Ctrl-C at a chosen moment."""

from __future__ import annotations


def interrupt(owner, method):
    """The next call of this method of `owner` is ended by Ctrl-C, and none after it."""

    def once(*_):
        delattr(owner, method)
        raise KeyboardInterrupt

    setattr(owner, method, once)
