// Mutual TLS: only who holds a certificate of the right authority gets in, and only to a server that does.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "common/file.h"
#include "proto/channel.h"
#include "proto/server.h"
#include "qgpu/v1/oracle.grpc.pb.h"

namespace qgpu {
namespace {

struct KeyAndCertificate {
  EVP_PKEY* key = nullptr;
  X509* certificate = nullptr;
};

void AddExtension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// A certificate for `name`, valid from now on for `valid_s` seconds (negative: expired); its own authority where
// `authority` is null.
KeyAndCertificate MakeCertificate(const char* name, const KeyAndCertificate* authority, long valid_s) {
  KeyAndCertificate made;
  made.key = EVP_EC_gen("P-256");
  made.certificate = X509_new();
  X509_set_version(made.certificate, 2);
  static long serial = 1;
  ASN1_INTEGER_set(X509_get_serialNumber(made.certificate), serial++);
  X509_gmtime_adj(X509_getm_notBefore(made.certificate), valid_s < 0 ? 2 * valid_s : -60);
  X509_gmtime_adj(X509_getm_notAfter(made.certificate), valid_s);
  X509_set_pubkey(made.certificate, made.key);
  X509_NAME* subject = X509_get_subject_name(made.certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  X509* issuer = authority == nullptr ? made.certificate : authority->certificate;
  X509_set_issuer_name(made.certificate, X509_get_subject_name(issuer));
  if (authority == nullptr) {
    AddExtension(made.certificate, issuer, NID_basic_constraints, "critical,CA:TRUE");
  } else {
    AddExtension(made.certificate, issuer, NID_subject_alt_name, name);
  }
  X509_sign(made.certificate, authority == nullptr ? made.key : authority->key, EVP_sha256());
  return made;
}

class EmptyOracle : public v1::Oracle::Service {
 public:
  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeOracleRequest*, v1::DescribeOracleReply*) override {
    return grpc::Status::OK;
  }
};

class TlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "qgpu_tls_" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    ours_ = MakeCertificate("ours", nullptr, 3600);
    theirs_ = MakeCertificate("theirs", nullptr, 3600);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Files of a party that trusts `trusted` and shows a certificate of `authority`.
  TlsFiles Files(const std::string& party, const KeyAndCertificate& trusted, const KeyAndCertificate& authority,
                 const char* name = "IP:127.0.0.1", long valid_s = 3600) {
    const KeyAndCertificate own = MakeCertificate(name, &authority, valid_s);
    const TlsFiles files = {folder_ + "/" + party + ".ca", folder_ + "/" + party + ".pem",
                            folder_ + "/" + party + ".key"};
    Write(files.ca, [&](FILE* file) { PEM_write_X509(file, trusted.certificate); });
    Write(files.certificate, [&](FILE* file) { PEM_write_X509(file, own.certificate); });
    Write(files.key, [&](FILE* file) { PEM_write_PrivateKey(file, own.key, nullptr, nullptr, 0, nullptr, nullptr); });
    return files;
  }
  bool CanCall(const TlsFiles& server_files, const TlsFiles& client_files) {
    ServerOptions options;
    options.tls = server_files;
    EmptyOracle service;
    auto server = RpcServer::Start(options, {&service});
    EXPECT_TRUE(server.ok()) << server.status();
    auto channel = OpenChannel((*server)->address(), client_files, false);
    EXPECT_TRUE(channel.ok()) << channel.status();
    auto stub = v1::Oracle::NewStub(*channel);
    grpc::ClientContext context;
    SetDeadline(context, 5000);
    v1::DescribeOracleReply reply;
    return stub->Describe(&context, {}, &reply).ok();
  }

  KeyAndCertificate ours_, theirs_;

 private:
  static void Write(const std::string& path, const std::function<void(FILE*)>& write) {
    FILE* file = fopen(path.c_str(), "w");
    ASSERT_NE(file, nullptr);
    write(file);
    fclose(file);
  }
  std::string folder_;
};

TEST_F(TlsTest, TheRightCertificatesGetIn) { EXPECT_TRUE(CanCall(Files("s", ours_, ours_), Files("c", ours_, ours_))); }

TEST_F(TlsTest, NoCertificateIsRefused) { EXPECT_FALSE(CanCall(Files("s", ours_, ours_), {})); }

TEST_F(TlsTest, AClientOfAnotherAuthorityIsRefused) {
  EXPECT_FALSE(CanCall(Files("s", ours_, ours_), Files("c", ours_, theirs_)));
}

TEST_F(TlsTest, AServerOfAnotherAuthorityIsRefused) {
  EXPECT_FALSE(CanCall(Files("s", ours_, theirs_), Files("c", ours_, ours_)));
}

TEST_F(TlsTest, AServerWithAForeignNameIsRefused) {
  EXPECT_FALSE(CanCall(Files("s", ours_, ours_, "DNS:elsewhere.example"), Files("c", ours_, ours_)));
}

TEST_F(TlsTest, ExpiredCertificatesAreRefused) {
  EXPECT_FALSE(CanCall(Files("s", ours_, ours_, "IP:127.0.0.1", -3600), Files("c", ours_, ours_)));
  EXPECT_FALSE(CanCall(Files("s", ours_, ours_), Files("c", ours_, ours_, "IP:127.0.0.1", -3600)));
}

TEST_F(TlsTest, MissingFilesAreNamed) {
  ServerOptions options;
  options.tls = {"/no/such/ca.pem", "/no/such/cert.pem", "/no/such/key.pem"};
  EmptyOracle service;
  const auto server = RpcServer::Start(options, {&service});
  EXPECT_NE(std::string(server.status().message()).find("/no/such/ca.pem"), std::string::npos);
}

}  // namespace
}  // namespace qgpu
