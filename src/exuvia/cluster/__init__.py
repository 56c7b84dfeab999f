"""The cluster: members and their epochs, owners and their terms, versions and who has them."""
