#include <tools/predict/transport.hpp>

#include <tools/common/text.hpp>  // states

namespace gx::tools::predict {

namespace {

/// Whether it is said that there is no RDMA; "no GPUDirect RDMA" goes through the host's memory.
bool has_no_rdma(std::string_view transport) {
    if (!denies(transport, "rdma")) return false;
    const std::string_view before = transport.substr(0, transport.find("rdma"));
    return !before.ends_with("gpudirect ") && !before.ends_with("gpu direct ");
}

}  // namespace

bool is_rdma(std::string_view transport, double gbps) {
    for (const char* word : {"tcp", "ipoib", "socket"})
        if (states(transport, word)) return false;
    if (has_no_rdma(transport)) return false;
    for (const char* word : {"infiniband", "rdma", "roce", "omni", "aries", "slingshot", "gemini",
                             "connectx", "mellanox", "gpudirect"})
        if (states(transport, word)) return true;
    for (const char* word :
         {"ib", "efa", "opa", "verbs", "sharp", "qdr", "fdr", "edr", "hdr", "ndr", "xdr"})
        if (states(transport, word, Word::apart)) return true;
    for (const char* word : {"ethernet", "gbe", "grpc", "gloo"})
        if (states(transport, word)) return false;
    for (const char* word : {"roce", "infiniband"})
        if (denies(transport, word)) return false;
    return !states(transport, "ena", Word::apart) && gbps > 40;
}

bool is_omni_path(std::string_view transport) {
    return states(transport, "omni") || states(transport, "opa", Word::apart);
}

}  // namespace gx::tools::predict
