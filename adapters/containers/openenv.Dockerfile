# One id behind OpenEnv's server:
#   docker build -f adapters/containers/openenv.Dockerfile -t vagen-openenv .
#   docker run -p 8000:8000 vagen-openenv --env-id vagen/FrozenLake-v0
FROM python:3.12-slim
WORKDIR /app
COPY . .
RUN pip install --no-cache-dir ".[openenv]"
EXPOSE 8000
HEALTHCHECK CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health')"
ENTRYPOINT ["python", "-m", "vagen_adapters.openenv_env", "--host", "0.0.0.0"]
