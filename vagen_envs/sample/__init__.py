"""Questions about pictures, one a row: V-Triune's samples as data and as the environment
`vagen/Sample-v0`.
"""
