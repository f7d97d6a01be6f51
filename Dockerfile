# The server, its PostgreSQL driver and its S3 client; run as README.md says.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
WORKDIR /src
COPY constraints.txt pyproject.toml README.md LICENSE seed.sql ./
COPY fhirapp fhirapp
RUN python3 -m venv /opt/fhirapp \
    && /opt/fhirapp/bin/pip install --no-cache-dir -c constraints.txt '.[postgresql,s3]' \
    && /opt/fhirapp/bin/pip uninstall -y pip \
    # Nothing runs these here: helpers for tests of their packages, and sources of what is compiled.
    && rm -rf /opt/fhirapp/lib/python3*/site-packages/sqlalchemy/testing \
        /opt/fhirapp/lib/python3*/site-packages/alembic/testing \
    && find /opt/fhirapp -name '*.py[ix]' -delete

# Debian's package of pg_dump needs Perl, which is 50 MB; the programs themselves do not.
FROM ${BASE} AS postgresql
RUN apt-get update \
    && apt-get install -y --no-install-recommends postgresql-client \
    && cp /usr/lib/postgresql/*/bin/pg_dump /usr/lib/postgresql/*/bin/pg_restore \
        /usr/lib/postgresql/*/bin/psql /srv/

FROM ${BASE}
# More packages of Debian, such as tesseract-ocr, which reads scans.
ARG EXTRA_PACKAGES=
RUN apt-get update \
    && apt-get install -y --no-install-recommends libpq5 libreadline8 ${EXTRA_PACKAGES} \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*.log /var/log/apt
ENV PATH=/opt/fhirapp/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    FHIRAPP_HOST=0.0.0.0 \
    FHIRAPP_INSTANCE_PATH=/app/instance
WORKDIR /app
COPY --from=build /opt/fhirapp /opt/fhirapp
COPY --from=postgresql /srv/ /opt/fhirapp/bin/
# For another WSGI server: `app:app`. seed.sql is inside the package.
COPY app.py ./
RUN install -d -m 0700 -o 10001 -g 10001 instance
# A number, so that an orchestrator can see that it is not root.
USER 10001:10001
# After its owner was set: a new volume takes the folder over as it is here.
VOLUME /app/instance
EXPOSE 8000
# Not urllib, which would ask a proxy that the environment names.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["python3", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ.get('FHIRAPP_PORT') or 8000), timeout=4); c.request('GET', '/health/live'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["fhirapp"]
CMD ["serve"]
