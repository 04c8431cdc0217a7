"""Environments in worker processes: a pool of workers, a server in front of it, and clients.

`client.Service` connects to a server, `backends.PoolBackend` plays in a pool of this program. `remote_env.RemoteEnv`
and `remote_vector.RemoteVectorEnv` are the Gymnasium environments on top of either.
"""
