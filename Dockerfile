# The service of `unmissed` with compiled kernels. Runs are mounted at /runs; the root file system may be read-only:
#   docker build -t unmissed .
#   docker run --rm --read-only --tmpfs /tmp -p 127.0.0.1:8000:8000 -v "$PWD/runs:/runs:ro" unmissed /runs/laws
FROM python:3.12-slim

ENV PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    UNMISSED_CACHE_DIR=/opt/unmissed

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src

# Kernels are compiled for the processor of the build machine; on another type they are compiled at the first start.
RUN pip install ".[serve]" \
    && unmissed compile \
    && chmod -R a+rX /opt/unmissed \
    && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin unmissed

USER 10001
WORKDIR /tmp
EXPOSE 8000

HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health/ready', timeout=2)"]

STOPSIGNAL SIGTERM
ENTRYPOINT ["unmissed", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/runs/run"]
