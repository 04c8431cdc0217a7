"""Environments in other processes and on other machines: a pool of workers, a server before it, and a client.

`client.Service` (a server's address), `local_pool.local_pool` (processes here) and `ray_pool.ray_pool` (actors of
a Ray cluster) are places where environments live; `remote_env.RemoteEnv` and
`remote_vector.RemoteVectorEnv` play in any.
"""
