# One id behind OpenEnv's server, from the repository's root:
#   docker build -f adapters/containers/openenv.Dockerfile -t vagen-openenv .
#   docker run -p 127.0.0.1:8000:8000 vagen-openenv --env-id vagen/FrozenLake-v0
ARG BASE=python:3.12-slim
FROM ${BASE}
WORKDIR /app
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY vagen_envs vagen_envs
COPY vagen_rewards vagen_rewards
COPY adapters adapters
COPY benchmarks benchmarks
RUN pip install --no-cache-dir ".[openenv]"
USER nobody
WORKDIR /tmp
EXPOSE 8000
HEALTHCHECK CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health')"
ENTRYPOINT ["python", "-m", "vagen_adapters.openenv_env", "--host", "0.0.0.0"]
