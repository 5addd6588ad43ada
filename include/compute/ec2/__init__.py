"""What the EC2 engine knows of EC2, without a client of its own: clients are passed in."""
