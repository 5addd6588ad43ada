"""The dashboard inside the Airflow UI: reads the ledger and the store, changes nothing."""
