// Package clock puts moments of a device's clock on the host's, each with a bound that
// the truth lies in. It is arithmetic alone: it knows no driver, reads no time, makes no
// goroutine, and allocates nothing after New.
//
// # What is known
//
// An event's stamp lies between the host times read before the call that recorded it and
// after the first query that found it reached. An anchor is such a bracket made as narrow
// as possible. Device times are integers, chained from anchor to anchor, and exact where
// stamps have a step that the readings' rounding cannot hide (Snap).
//
// # What follows from it
//
// Three things limit where a moment x lies, and it lies in all three:
//
//   - its own host times: not before the call that recorded it, not after it was seen;
//   - the nearest anchor on either side: the bracket moved by the distance, give or take
//     the largest difference of the clocks' rates times that distance (Causal);
//   - the chord between the anchors k and k+1 around it, once four more follow (Settled):
//
// with lambda the part of the way and W the brackets,
//
//	error <= (1-lambda) W[k]/2 + lambda W[k+1]/2 + tick + kappa lambda (1-lambda) Delta
//
// Here kappa is how much the rate may have changed within the link, judged by the links
// around it: the largest change from one link to the next within four on either side, or
// the change from the four before to the four behind plus what their brackets could have
// hidden, whichever is more. A baseline of four links makes that resolution, and not the
// number of anchors, small enough: with links of 0.1 s and brackets of 6 us it is 15 ppm.
//
// # What is not guaranteed
//
// A rate that leaves its neighbourhood and comes back within one link, by more than any
// change seen around it, shows in no anchor: the third limit can then be wrong by up to
// a quarter of that excursion times the link. The first two hold as long as the rates
// differ by no more than Config.MaxRate. The estimate is the chord, at the middle of the
// brackets; it is off by half of what a bracket is uneven (on an H200 the stamp lies at
// 62 % of it, 0.7 us behind the middle), which the bound includes.
package clock
