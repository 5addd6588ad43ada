# One image for all Airflow components, MLflow and the model server; what runs is chosen by the command.
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 50000 plimsoll

WORKDIR /opt/plimsoll
COPY requirements.txt ./
# torch first and by itself: its wheel decides whether CUDA libraries come along.
ARG TORCH="torch==2.13.0"
ARG TORCH_INDEX=""
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$TORCH" \
    && pip install --no-cache-dir uv \
    && uv pip install --system --no-cache --compile-bytecode -r requirements.txt

COPY include ./include
COPY plugins ./plugins
COPY dags ./dags
COPY stack ./stack
COPY LICENSE README.md ./

ENV PYTHONPATH=/opt/plimsoll \
    AIRFLOW_HOME=/opt/plimsoll/home \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/plimsoll/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/plimsoll/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=False
RUN mkdir -p /opt/plimsoll/home /opt/plimsoll/var && chown -R plimsoll /opt/plimsoll/home /opt/plimsoll/var
USER plimsoll
ENTRYPOINT ["tini", "--"]
CMD ["airflow", "version"]
