"""The app of these tests: teams, their customers and tickets, with columns that nobody may see."""
