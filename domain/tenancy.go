package domain

// SystemTenant is the tenant of the streams and documents that belong to the
// installation and to no tenant of its users: keys, and the list of tenants.
// Tenants of users are numbers, so none of them can be it.
const SystemTenant = "system"

// DefaultTenant is the tenant that always exists: that of the machine's own
// user and of the operator's key, unless a request names another.
const DefaultTenant = "1"
