// Package fakesuite runs the contract's suite on imitations of the libraries of
// C-family vendors. A vendor's conformance test is a call of it.
package fakesuite
