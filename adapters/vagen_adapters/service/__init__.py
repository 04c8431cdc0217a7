"""Environments in worker processes: a server in front of a pool of workers, and clients.

`client.Service` connects to a server. `remote_env.RemoteEnv` and `remote_vector.RemoteVectorEnv`
are the Gymnasium environments there.
"""
