"""Running the server: making the database ready, processes, logs."""

# Among an app's extensions: the process that SIGUSR1 starts anew, where fhirapp serves itself.
RESTARTS = "fhirapp.restarts"
