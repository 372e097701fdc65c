// Package collectortest sends what contrib/otel makes over OTLP/HTTP into the OpenTelemetry
// Collector itself, and looks at what arrives in it. It is a module of its own because the
// collector brings more than a hundred others. It has no code but its tests.
package collectortest
