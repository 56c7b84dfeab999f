"""Tables computed when they are read: information_schema, performance_schema, some of mysql."""
