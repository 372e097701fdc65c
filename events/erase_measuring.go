package events

// measuring are the abilities of an erased api that harnesses need.
type measuring[S comparable] struct {
	cache   Cache
	syncer  DeviceSynchronizer
	version Versioned
	empty   EmptyKernel[S]
	reader  ReadKernel[S]
}

func measuringOf[S comparable](api any) (m measuring[S]) {
	m.cache, _ = Ability[Cache](api)
	m.syncer, _ = Ability[DeviceSynchronizer](api)
	m.version, _ = Ability[Versioned](api)
	m.empty, _ = Ability[EmptyKernel[S]](api)
	m.reader, _ = Ability[ReadKernel[S]](api)
	return m
}

func (x *erased[E, S]) CacheBytes() (int64, error) {
	if x.cache == nil {
		return 0, x.unsupported("the size of the cache")
	}
	return x.cache.CacheBytes()
}

func (x *erased[E, S]) CacheResetPersisting() error {
	if x.cache == nil {
		return x.unsupported("resetting persisting lines of the cache")
	}
	return x.cache.CacheResetPersisting()
}

func (x *erased[E, S]) DeviceSynchronize() error {
	if x.syncer == nil {
		return x.unsupported("waiting for the whole device")
	}
	return x.syncer.DeviceSynchronize()
}

func (x *erased[E, S]) Versions() (driver, runtime string) {
	if x.version == nil {
		return "", ""
	}
	return x.version.Versions()
}

func (x *erased[E, S]) LaunchEmpty(stream AnyStream) error {
	s, err := x.stream(stream)
	if err != nil {
		return err
	}
	if x.empty == nil {
		return x.unsupported("an empty kernel")
	}
	return x.empty.LaunchEmpty(s)
}

func (x *erased[E, S]) LaunchRead(buffer Buffer, bytes int64, stream AnyStream) error {
	s, err := x.stream(stream)
	if err != nil {
		return err
	}
	if x.reader == nil {
		return x.unsupported("a kernel that reads")
	}
	return x.reader.LaunchRead(buffer, bytes, s)
}
