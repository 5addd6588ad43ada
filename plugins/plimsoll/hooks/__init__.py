"""Connections of the installation: where operators get store, ledger and engines from."""
