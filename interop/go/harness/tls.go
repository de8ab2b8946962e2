package harness

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
)

// TLSBodyBytes is the size of a body in a scenario over TLS: several records.
const TLSBodyBytes = 100_000

// TLSOrder are the scenarios of interop/TLS.md; they run when interop/tls/run has made certificates.
var TLSOrder = []string{
	"tls-1.2", "tls-1.3", "tls-external-1.2", "tls-external-1.3",
	"tls-expired", "tls-revoked", "tls-foreign", "tls-unknown-ca",
}

// TLSCase is how the client of one of them connects.
type TLSCase struct {
	Config              *tls.Config
	External, IsRefused bool
}

// TLSWanted is whether these scenarios are to run, and no others.
func TLSWanted() bool { return os.Getenv("INTEROP_TLS") != "" }

func tlsFile(name string) string { return filepath.Join(os.Getenv("INTEROP_TLS"), name) }

// TLSScenarios are all of them. The steps connect, which may fail, then publish a body and take it back.
func TLSScenarios(steps func(run *Run, connect TLSCase) error) map[string]func(*Run) {
	all := map[string]func(*Run){}
	add := func(id string, version uint16, certificate string, authority string, isRefused bool) {
		all[id] = func(run *Run) {
			err := steps(run, TLSCase{tlsConfig(version, certificate, authority), certificate != "", isRefused})
			if isRefused != (err != nil) {
				Failf("connecting: %v", err)
			}
		}
	}
	add("tls-1.2", tls.VersionTLS12, "", "ca", false)
	add("tls-1.3", tls.VersionTLS13, "", "ca", false)
	add("tls-external-1.2", tls.VersionTLS12, "client", "ca", false)
	add("tls-external-1.3", tls.VersionTLS13, "client", "ca", false)
	add("tls-expired", tls.VersionTLS13, "expired", "ca", true)
	add("tls-revoked", tls.VersionTLS12, "revoked", "ca", true)
	add("tls-foreign", tls.VersionTLS12, "foreign", "ca", true)
	add("tls-unknown-ca", tls.VersionTLS13, "", "foreign_ca", true)
	return all
}

func tlsConfig(version uint16, certificate, authority string) *tls.Config {
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(tlsFile(authority + "_certificate.pem"))
	Check(err)
	Equal(roots.AppendCertsFromPEM(pem), true, "an authority")
	config := &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: version, MaxVersion: version}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(tlsFile(certificate+"_certificate.pem"), tlsFile(certificate+"_key.pem"))
		Check(err)
		// Shown even if it is of an authority that the node does not name.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return config
}
