#!/bin/sh
# Write throw-away certificates into a folder, with openssl alone:
#
#     certs.sh DIRECTORY
#
# ca.pem            the authority; ca.p12 is the same for Java, as a trust store
# server.pem, .key  for localhost, 127.0.0.1, ::1 (and the service names of compose.yaml); server.p12 for Java
# client.pem, .key  for ports that demand a client certificate
# otherca.pem       an authority that signed nothing here: for "not trusted" tests
#
# Does nothing where they exist and are good for another week. The key stores' password is "changeit".
set -eu
umask 077
mkdir -p "$1"
cd "$1"
DAYS=365
WEEK=604800

if [ -s complete ] && openssl x509 -checkend "$WEEK" -noout -in server.pem >/dev/null 2>&1; then
    exit 0
fi
rm -f complete

authority() { # NAME SUBJECT
    openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
    openssl req -x509 -new -key "$1.key" -sha256 -days "$DAYS" -subj "/O=trio_stomp tests/CN=$2" -out "$1.pem"
}

leaf() { # NAME COMMON-NAME USAGE SUBJECT-ALTERNATIVE-NAMES
    openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$1.key"
    openssl req -new -key "$1.key" -subj "/O=trio_stomp tests/CN=$2" -out "$1.csr"
    printf '%s\n' "basicConstraints=critical,CA:false" "keyUsage=critical,digitalSignature" \
        "extendedKeyUsage=$3" "subjectKeyIdentifier=hash" "authorityKeyIdentifier=keyid" "subjectAltName=$4" >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -sha256 -days "$DAYS" \
        -extfile "$1.ext" -out "$1.pem"
    rm -f "$1.csr" "$1.ext"
}

{
    authority ca "trio_stomp test authority"
    authority otherca "an unrelated authority"
    leaf server localhost serverAuth "DNS:localhost,DNS:rabbitmq,DNS:activemq,DNS:artemis,IP:127.0.0.1,IP:::1"
    leaf client stompclient clientAuth "email:client@example.org"
    openssl pkcs12 -export -name server -in server.pem -inkey server.key -certfile ca.pem \
        -passout pass:changeit -out server.p12
    # Java takes a lone certificate in a PKCS#12 file for trusted only with an attribute of its own, which openssl
    # before 3.2 cannot write. It also trusts the certificate of a key entry, so the authority goes in with its key.
    openssl pkcs12 -export -name ca -in ca.pem -inkey ca.key -passout pass:changeit -out ca.p12
    rm -f otherca.key ca.srl
} 2>certs.log || {
    cat certs.log >&2
    exit 1
}
date >complete
