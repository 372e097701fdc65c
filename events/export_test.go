package events

// Handle is the backend's own event, which pooled Events have one after the other.
func Handle[E any, S comparable](e *Event[E, S]) E { return e.body.handle }
