// Package collectortest sends what contrib/otel makes over OTLP/HTTP into the OpenTelemetry
// Collector itself, and looks at what arrives in it. It is a module of its own because the
// collector brings some two hundred others. It has no code but its tests.
package collectortest
