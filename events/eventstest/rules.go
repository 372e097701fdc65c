package eventstest

// rules lists the contract. The order is that of a new backend's progress: what
// a rule stands on comes before it.
func rules[E any, S comparable]() []rule[E, S] {
	return []rule[E, S]{
		{Rule{"backend-name", "Backend must always give the same name, of lower-case letters, digits, '-' and '_'"}, backendName[E, S]},
		{Rule{"work", "The suite must have something to keep a stream busy with: Work, or the Scratch or Gate ability"}, workGiven[E, S]},
		{Rule{"new-handles", "EventCreate and StreamCreateNonBlocking must make a new handle each time"}, newHandles[E, S]},
		{Rule{"zero-handles", "A zero handle must be ErrInvalid in every method, and no method may panic"}, zeroHandles[E, S]},

		{Rule{"record-returns-at-once", "EventRecord must return once the record is queued, and not wait until the device gets there"}, recordReturnsAtOnce[E, S]},
		{Rule{"wait-waits", "EventWait must not return before the device has reached the record"}, waitWaits[E, S]},
		{Rule{"wait-again", "EventWait on an event that has been reached must return nil at once, any number of times and from any goroutine"}, waitAgain[E, S]},
		{Rule{"wait-never-recorded", "EventWait on an event that was never recorded must be ErrNotRecorded, not success and not a wait"}, waitNeverRecorded[E, S]},
		{Rule{"synchronize-waits", "StreamSynchronize must not return before everything queued on the stream is done"}, synchronizeWaits[E, S]},
		{Rule{"synchronize-one-stream", "StreamSynchronize must wait for its own stream only"}, synchronizeOneStream[E, S]},
		{Rule{"record-keeps-to-its-stream", "A record must be reached when its own stream gets there, whatever other streams do"}, recordKeepsToItsStream[E, S]},
		{Rule{"rerecord-replaces", "Recording an event again must replace the earlier record: it is pending again, and has the new time afterwards"}, rerecordReplaces[E, S]},

		{Rule{"query-pending", "EventQuery on an event that the device has not reached must be false without an error, however often it is asked"}, queryPending[E, S]},
		{Rule{"query-reached", "EventQuery on an event that has been reached must be true without an error, and stay so"}, queryReached[E, S]},
		{Rule{"query-never-recorded", "EventQuery on an event that was never recorded must be ErrNotRecorded, not complete"}, queryNeverRecorded[E, S]},
		{Rule{"round-like-query", "RoundQuery must answer as EventQuery does, and a round must end without an error"}, roundLikeQuery[E, S]},

		{Rule{"elapsed-never-recorded", "EventElapsed on an event that was never recorded must be ErrNotRecorded"}, elapsedNeverRecorded[E, S]},
		{Rule{"elapsed-pending", "EventElapsed on an event that the device has not reached must be ErrNotReady, never a number"}, elapsedPending[E, S]},
		{Rule{"elapsed-untimed", "EventElapsed on an event made without a timestamp must be ErrTimingDisabled"}, elapsedUntimed[E, S]},
		{Rule{"elapsed-says-which", "The error of EventElapsed must say in words whether it is about the start or the end event"}, elapsedSaysWhich[E, S]},
		{Rule{"elapsed-pairs", "EventElapsed must refuse every pair of events of which one cannot be read, with the error of one of the two"}, elapsedPairs[E, S]},
		{Rule{"elapsed-self", "EventElapsed from an event to itself must be 0"}, elapsedSelf[E, S]},
		{Rule{"elapsed-stable", "EventElapsed must give the same span each time until one of the events is recorded again"}, elapsedStable[E, S]},
		{Rule{"elapsed-magnitude", "EventElapsed round a piece of work must be the work's duration: at least half of it, and no longer than the host waited for it"}, elapsedMagnitude[E, S]},
		{Rule{"elapsed-device-time", "A stamp must be taken when the device gets to the record, not when EventRecord is called"}, elapsedDeviceTime[E, S]},
		{Rule{"elapsed-device-timer", "EventElapsed round a spin must agree with the device's own timer within Overhead"}, elapsedDeviceTimer[E, S]},
		{Rule{"elapsed-additive", "The spans from a to b and from b to c must add up to that from a to c within Resolution"}, elapsedAdditive[E, S]},
		{Rule{"elapsed-order", "The stamps of a thousand events must be in the order in which they were recorded on one stream"}, elapsedOrder[E, S]},
		{Rule{"elapsed-clamped", "EventElapsed from the later to the earlier event must be 0 without an error, never negative"}, elapsedClamped[E, S]},
		{Rule{"elapsed-clamp-counted", "A negative reading that was clamped to 0 must be counted in Stats.Clamped"}, elapsedClampCounted[E, S]},
		{Rule{"reading-converted", "A reading in milliseconds must become a duration rounded to the nanosecond, and 0 where it is negative"}, readingConverted[E, S]},
		{Rule{"reading-refused", "A reading that is no duration (NaN, infinite, beyond 292 years) must be ErrBadReading"}, readingRefused[E, S]},

		{Rule{"stream-wait-orders", "Work queued after StreamWaitEvent must wait on the device until the event is reached"}, streamWaitOrders[E, S]},
		{Rule{"stream-wait-returns-at-once", "StreamWaitEvent must not make the host wait for the event"}, streamWaitReturnsAtOnce[E, S]},
		{Rule{"stream-wait-reached", "StreamWaitEvent for an event that has been reached must work and hold nothing up"}, streamWaitReached[E, S]},
		{Rule{"stream-wait-keeps-its-record", "A stream wait must keep the record that it saw, also if the event is recorded again afterwards"}, streamWaitKeepsItsRecord[E, S]},
		{Rule{"stream-wait-never-recorded", "StreamWaitEvent for an event that was never recorded must be ErrNotRecorded: the dependency would be lost"}, streamWaitNeverRecorded[E, S]},

		{Rule{"untimed-events", "An event made without a timestamp must work like any other, except that it has no time"}, untimedEvents[E, S]},

		{Rule{"destroy-twice", "Destroying an event a second time must do nothing and return nil"}, destroyTwice[E, S]},
		{Rule{"destroy-pending", "EventDestroy must not wait for an event that the device has not reached"}, destroyPending[E, S]},
		{Rule{"destroy-while-waiting", "EventDestroy must not wait for an EventWait in progress, which then ends with nil or ErrDestroyed"}, destroyWhileWaiting[E, S]},
		{Rule{"use-after-destroy", "A destroyed event must be ErrDestroyed in every method but EventDestroy"}, useAfterDestroy[E, S]},
		{Rule{"stream-destroy-twice", "Destroying a stream a second time must do nothing and return nil"}, streamDestroyTwice[E, S]},
		{Rule{"stream-destroy-pending", "StreamDestroy must not wait for work that is queued, and that work must still run"}, streamDestroyPending[E, S]},
		{Rule{"stream-use-after-destroy", "A destroyed stream must be ErrDestroyed in every method but StreamDestroy"}, streamUseAfterDestroy[E, S]},
		{Rule{"foreign-handles", "A handle of another device or instance must be ErrDeviceMismatch in every method"}, foreignHandles[E, S]},
		{Rule{"foreign-wait", "A stream wait for an event of another device must be refused, or really wait"}, foreignWait[E, S]},

		{Rule{"failed-record", "After an EventRecord that failed the event must count as never recorded, so that a stale stamp is not read"}, failedRecord[E, S]},
		{Rule{"failed-record-dead-stream", "After an EventRecord on a destroyed stream the event must count as never recorded"}, failedRecordDeadStream[E, S]},
		{Rule{"errors-explain", "Every error must wrap a sentinel of package events, and a library's refusal must name the backend, the function and the code's number"}, errorsExplain[E, S]},

		{Rule{"concurrent-use", "All methods must be safe for use from many goroutines at once"}, concurrentUse[E, S]},
		{Rule{"concurrent-destroy", "An event destroyed by several goroutines while others use it must be freed once, and the others get ErrDestroyed at worst"}, concurrentDestroy[E, S]},
		{Rule{"live-counts", "Stats.LiveEvents and LiveStreams must count what was made and not yet freed"}, liveCounts[E, S]},
		{Rule{"leaks", "Whatever was destroyed must be freed, whatever state it was in"}, leaks[E, S]},
		{Rule{"leaks-after-errors", "A call that fails must leave nothing behind"}, leaksAfterErrors[E, S]},
		{Rule{"goroutines", "No goroutine may stay behind for a stream or an event that was destroyed"}, goroutines[E, S]},

		{Rule{"abilities-refused", "A method of an ability that is not offered must say ErrUnsupported"}, abilitiesRefused[E, S]},
		{Rule{"abilities-work", "An ability that is offered must not say ErrUnsupported"}, abilitiesWork[E, S]},
		{Rule{"abilities-stable", "Whether an ability is offered must never change"}, abilitiesStable[E, S]},
		{Rule{"identity-stable", "Identity must always be the same"}, identityStable[E, S]},
		{Rule{"identity-distinct", "Two devices of one opening must have different identities"}, identityDistinct[E, S]},
		{Rule{"wrap-equal", "Wrapping one handle twice must give equal streams, and another handle a different one"}, wrapEqual[E, S]},
		{Rule{"wrap-not-destroyed", "StreamDestroy must refuse a stream that was only wrapped, with ErrInvalid"}, wrapNotDestroyed[E, S]},
		{Rule{"timer-brackets", "An event's stamp must lie between two readings of the device's timer, taken before its record and after its wait"}, timerBrackets[E, S]},
		{Rule{"stamps-as-elapsed", "Stamps must lie as far apart as EventElapsed says, and be refused as it refuses"}, stampsAsElapsed[E, S]},
		{Rule{"host-clock", "The host clock must never go back"}, hostClock[E, S]},

		{Rule{"gate-holds", "Work queued behind a closed gate must wait until the gate is opened"}, gateHolds[E, S]},
		{Rule{"gate-opens-again", "Opening a gate again must do nothing and return nil"}, gateOpensAgain[E, S]},
		{Rule{"gate-watchdog", "A gate's watchdog must let the stream go, and Open must say so with ErrExpired"}, gateWatchdog[E, S]},
		{Rule{"spin-measured", "A spin's Measured must be ErrNotReady before the work is done, at least the duration asked for after it, and not change"}, spinMeasured[E, S]},
		{Rule{"spin-bounds", "A spin that is not above 0 and at most 10 s must be ErrInvalid"}, spinBounds[E, S]},
		{Rule{"scratch-memory", "Device memory must take fills and copies of its own size, and refuse larger ones with ErrInvalid"}, scratchMemory[E, S]},

		{Rule{"cache-size", "CacheBytes must be above 0, always the same, and need no work of the device: also while a gate holds a stream"}, cacheSize[E, S]},
		{Rule{"synchronize-device", "DeviceSynchronize must not return before everything queued on any stream of the device is done"}, synchronizeDevice[E, S]},
		{Rule{"versions-stable", "Versions must always be the same"}, versionsStable[E, S]},
		{Rule{"empty-kernel", "LaunchEmpty must return at once, and what it queues must take no longer than Overhead"}, emptyKernel[E, S]},

		{Rule{"capture-seen", "StreamCapturing must be true for a stream that is being captured, and for no other"}, captureSeen[E, S]},
		{Rule{"capture-survives", "A graph capture must survive every call on events and streams that have no part in it"}, captureSurvives[E, S]},
		{Rule{"capture-broken", "What breaks a capture must say ErrCapturing, so must its end, and the stream must be usable afterwards"}, captureBroken[E, S]},
		{Rule{"captured-event", "An event whose record went into a capture must never be reported as complete or read as a time"}, capturedEvent[E, S]},
		{Rule{"captured-event-again", "An event whose record went into a capture must be as good as any once it is recorded outside"}, capturedEventAgain[E, S]},
		{Rule{"capture-external", "EventRecordExternal in a capture must be stamped at every launch of the graph, and have no time before the first"}, captureExternal[E, S]},
		{Rule{"external-outside-capture", "EventRecordExternal outside a capture must be a plain record, or an error after which the event counts as never recorded"}, externalOutsideCapture[E, S]},
		{Rule{"capture-misuse", "Misuse of captures and graphs must be an error: a mode that does not exist, an end without a beginning, a launch after Close"}, captureMisuse[E, S]},

		{Rule{"fault-sticky", "After a device fault the next record, and from then on every method that reaches the device, must be ErrDeviceFault"}, faultSticky[E, S]},
		{Rule{"fault-ends-waits", "A device fault must end an EventWait in progress with ErrDeviceFault"}, faultEndsWaits[E, S]},
	}
}
