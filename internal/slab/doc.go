// Package slab makes small objects many at a time, where an allocation for each
// would cost more than the object.
package slab
