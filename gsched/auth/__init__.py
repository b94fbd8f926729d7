"""Who somebody is: peer credentials, signed tickets, the cluster's own certificate authority.

May import errors, values. `cryptography` is imported only where certificates are made.
"""
