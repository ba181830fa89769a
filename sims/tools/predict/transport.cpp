#include <tools/predict/transport.hpp>

#include <tools/common/text.hpp>  // has, has_word

namespace gx::tools::predict {

bool is_rdma(std::string_view transport, double gbps) {
    for (const char* word : {"tcp", "ipoib", "socket"})
        if (has(transport, word)) return false;
    for (const char* word : {"infiniband", "rdma", "roce", "omni", "aries", "slingshot", "gemini",
                             "connectx", "mellanox", "gpudirect"})
        if (has(transport, word)) return true;
    for (const char* word :
         {"ib", "efa", "opa", "verbs", "sharp", "qdr", "fdr", "edr", "hdr", "ndr", "xdr"})
        if (has_word(transport, word)) return true;
    for (const char* word : {"ethernet", "gbe", "grpc", "gloo"})
        if (has(transport, word)) return false;
    return !has_word(transport, "ena") && gbps > 40;
}

bool is_omni_path(std::string_view transport) {
    return has(transport, "omni") || has_word(transport, "opa");
}

}  // namespace gx::tools::predict
