"""How the dashboard shows what it has read: parts, templates, charts, words."""
