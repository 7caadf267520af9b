"""What stands behind the project's commands: set up, open the lessons, test, refresh."""
