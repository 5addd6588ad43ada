"""Airflow's side of Plimsoll: operators, triggers, task groups, dashboard. Decisions live in include/."""
