"""The application around the library: tables, `compare`, models on disk, reports, commands."""
