"""The cluster: members, owners of roles, schema versions and their acknowledgements, row locks."""
