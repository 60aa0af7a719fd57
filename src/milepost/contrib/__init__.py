"""Milepost in the frameworks that users have. Each module is imported only by those who use it."""
