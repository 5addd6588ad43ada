"""The engine: plain Python that never imports Airflow. See docs/architecture.md for the rooms and floors."""
