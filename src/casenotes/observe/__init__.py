"""The path of session memory: batch, transcript, read, observer; activate, log, session; reflector."""
