package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime of the certificates: longer than any clock that a test pretends.
const lifetime = 30 * 365 * 24 * time.Hour

// runPKI writes into DIRECTORY what one control plane needs: ca.crt, apiserver.crt and .key, sa.key and sa.pub for
// service account tokens, and an administrator's kubeconfig (client certificate, group system:masters) for SERVER.
func runPKI(args []string) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: member pki DIRECTORY https://127.0.0.1:PORT")
		return 2
	}
	if err := makePKI(args[0], args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "pki: %v\n", err)
		return 1
	}
	return 0
}

func makePKI(directory, server string) error {
	now := time.Now().Add(-24 * time.Hour) // A clock that jumps a little back finds the certificates valid.
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "member-ca"},
		NotBefore: now, NotAfter: now.Add(lifetime), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return err
	}
	sign := func(serial int64, subject pkix.Name, usage x509.ExtKeyUsage) (cert, key []byte, err error) {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, nil, err
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: subject, NotBefore: now, NotAfter: now.Add(lifetime),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		}
		if usage == x509.ExtKeyUsageServerAuth {
			template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
			template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)}
		}
		der, err := x509.CreateCertificate(rand.Reader, template, ca, &private.PublicKey, caKey)
		if err != nil {
			return nil, nil, err
		}
		pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			return nil, nil, err
		}
		return encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8), nil
	}
	serverCert, serverKey, err := sign(2, pkix.Name{CommonName: "kube-apiserver"}, x509.ExtKeyUsageServerAuth)
	if err != nil {
		return err
	}
	admin := pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}
	adminCert, adminKey, err := sign(3, admin, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return err
	}
	tokens, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	tokensPrivate, err := x509.MarshalECPrivateKey(tokens)
	if err != nil {
		return err
	}
	tokensPublic, err := x509.MarshalPKIXPublicKey(&tokens.PublicKey)
	if err != nil {
		return err
	}
	caPEM := encode("CERTIFICATE", caDER)
	for name, content := range map[string][]byte{
		"ca.crt":        caPEM,
		"apiserver.crt": serverCert,
		"apiserver.key": serverKey,
		"sa.key":        encode("EC PRIVATE KEY", tokensPrivate),
		"sa.pub":        encode("PUBLIC KEY", tokensPublic),
		"kubeconfig":    kubeconfig(server, caPEM, adminCert, adminKey),
	} {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func kubeconfig(server string, ca, cert, key []byte) []byte {
	text := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: member
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: admin
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: member
  context: {cluster: member, user: admin}
current-context: member
`, server, text(ca), text(cert), text(key))
}
