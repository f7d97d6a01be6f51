"""Running the server: making the database ready, processes, logs."""
