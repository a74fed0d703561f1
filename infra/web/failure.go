package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
)

// failure names what went wrong with a connection: a stable code, and words
// that hold nothing of the network behind it.
func failure(err error) (code, why string) {
	var dns *net.DNSError
	var timeout net.Error
	var record tls.RecordHeaderError
	var verify *tls.CertificateVerificationError
	var alert tls.AlertError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &dns):
		if dns.IsNotFound {
			return "dns_failed", "its name is not known"
		}
		return "dns_failed", "its name could not be looked up"
	case errors.As(err, &verify), errors.As(err, &authority), errors.As(err, &name), errors.As(err, &invalid):
		return "tls_failed", "its certificate is not valid"
	case errors.As(err, &record), errors.As(err, &alert), errors.Is(err, http.ErrSchemeMismatch):
		return "tls_failed", "no encrypted connection could be made"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "connection_timeout", "it took too long"
	case errors.Is(err, context.Canceled):
		return "connection_failed", "the request was stopped"
	}
	return "connection_failed", "no connection could be made, or it broke off"
}
