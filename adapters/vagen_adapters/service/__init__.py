"""Environments in other processes and on other machines: a pool of workers, a server before it, and a client.

`client.Service` (a server's address), `pool.local_pool` (processes here) and `ray_pool.ray_pool` (actors of
a Ray cluster) are places where environments live; `remote_env.RemoteEnv` and `RemoteVectorEnv` play in any.
"""
