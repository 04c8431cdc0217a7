"""Providers of models, each behind one call. A client asks once; waiting and retrying is its
caller's.
"""
