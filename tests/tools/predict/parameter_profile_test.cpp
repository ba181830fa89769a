#include <tools/predict/parameter_profile.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

namespace {

using namespace gx::tools::predict;

// ---- Cases worked by hand -----------------------------------------------------------
TEST(ParameterProfiles, FindsTheLongestName) {
    ASSERT_NE(profile_of("VGG-19 (batch norm)"), nullptr);
    EXPECT_EQ(profile_of("VGG-19")->millions, 143.67);
    EXPECT_EQ(profile_of("MobileNet v2")->name, "mobilenetv2");
    EXPECT_EQ(profile_of("MobileNet")->name, "mobilenet");
    EXPECT_EQ(profile_of("Transformer (big)")->name, "transformerbig");
    EXPECT_EQ(profile_of("a new network"), nullptr);
    EXPECT_EQ(profile_of("CLIP ViT-B/32")->name, "vitb");
    EXPECT_EQ(profile_of("SSD-VGG16")->name, "ssd");
    EXPECT_EQ(profile_of("Wide ResNet-50-2")->name, "wideresnet502");
    EXPECT_EQ(profile_opening("CLIP ViT-B/32"), nullptr);
}
TEST(ParameterProfiles, ReadsTheNumberOfParametersInAName) {
    EXPECT_EQ(millions_in("GPT-2 345M"), 345);
    EXPECT_EQ(millions_in("GPT 1.3B"), 1300);
    EXPECT_EQ(millions_in("Llama-2 7B"), 7000);
    EXPECT_EQ(millions_in("GPT-3 175 billion"), 175'000);
    EXPECT_EQ(millions_in("Qwen .5B"), 500);
    EXPECT_EQ(millions_in(".5B Qwen"), 500);
    for (const char* name : {"ResNet-50", "BERT-base", "ViT-B/16", "GPT-2 medium", "ResNet-50 by",
                             "EfficientNet-B4", "4 big layers", "YOLOv5m", ""})
        EXPECT_EQ(millions_in(name), 0) << name;
}

/// Chen et al. 2020, arXiv:2002.05709, table 6: ResNet-50 of width 2 and 4, ResNet-152 of width 2.
TEST(ParameterProfiles, AWidthBeforeASpaceIsNoFactor) {
    EXPECT_EQ(millions_in("SimCLR ResNet-50 2x 94M"), 94);
    EXPECT_EQ(millions_in("ResNet-50 4x 375M"), 375);
    EXPECT_EQ(millions_in("ResNet-152 2\u00d7 233M"), 233);
    EXPECT_EQ(unread_size("ResNet-50 4x 375M"), "");
    EXPECT_EQ(millions_in("net 8 x7B"), 0) << "of that number, not of the one before";
}

TEST(ParameterProfiles, AWidthIsAFactorOfNothingElse) {
    for (const char* wide : {"ResNet-50 (4x)", "resnet-50 2x", "4x ResNet-50 2x", "2x, ResNet",
                             "ResNet-50 (2x width)", "ResNet-50 2x wider", "ResNet-50x4",
                             "ResNet50 x2", "ResNet-50 double width", "MobileNetV2 1.4x"})
        EXPECT_TRUE(states_width(wide)) << wide;
    for (const char* other :
         {"", "x", "ResNet-50", "ResNet-50 1x", "4x V100", "32x4d", "r50x3", "224x224", "a4x",
          "ResNet-50 1.0x", "ResNet-50x1", "ResNet-50 x8 V100", "ResNet-50 224x224", "resnetx4"})
        EXPECT_FALSE(states_width(other)) << other;
}
TEST(ParameterProfiles, AWordIsNotCutByASize) {
    for (const char* base : {"ViT-B/16", "vit_b_16", "ViT-B16", "ViT-Base", "ViTB"})
        EXPECT_EQ(profile_of(base)->name, "vitb") << base;
    EXPECT_EQ(profile_of("ViT-bigG/14")->name, "vit");
    EXPECT_EQ(profile_of("Swin Transformer")->name, "swin");
    EXPECT_EQ(profile_of("Conformer LibriSpeech")->name, "conformer");
    EXPECT_EQ(profile_of("GPT-J 6B")->name, "gptj");
}

TEST(ParameterProfiles, ANumberIsNotCut) {
    for (const char* gpt : {"GPT 32 layers", "GPT, 36 layers", "GPT (3 layers)", "GPT 345"})
        EXPECT_EQ(profile_of(gpt)->name, "gpt") << gpt;
    EXPECT_EQ(profile_of("GPT-3")->name, "gpt3");
    EXPECT_EQ(profile_of("GPT-3 175B")->name, "gpt3");
    EXPECT_EQ(profile_of("EfficientNet-B70")->name, "efficientnet");
    EXPECT_EQ(profile_of("GPT-2 24 layers")->name, "gpt2");
    EXPECT_TRUE(opens_with("ResNet-50 224px", "resnet50"));
    EXPECT_TRUE(opens_with("ResNet-50 v1.0", "resnet50v1"));
    EXPECT_TRUE(opens_with("ResNet-50 v1b", "resnet50v1"));
    EXPECT_FALSE(opens_with("ResNet-500", "resnet50"));
    EXPECT_FALSE(opens_with("ResNet-50 v1.5", "resnet50v1"));
    EXPECT_TRUE(holds("MLPerf ResNet-50", "resnet50"));
    EXPECT_FALSE(holds("MLPerf ResNet-500", "resnet50"));
}
TEST(ParameterProfiles, KinOfBertAreNotBertLarge) {
    for (const char* kin : {"ALBERT", "DeBERTa", "TinyBERT", "MobileBERT", "ALBERT-large"})
        EXPECT_LT(profile_of(kin)->millions, 150) << kin;
    EXPECT_FALSE(holds("DeBERTa", "bert"));
    EXPECT_FALSE(holds("MobileBERT-large", "bertlarge"));
    EXPECT_TRUE(holds("MLPerf BERT", "bert"));
}
TEST(ParameterProfiles, CountsOfTokensAreNotParameters) {
    EXPECT_EQ(millions_in("GPT 1,300M"), 1300);
    EXPECT_EQ(millions_in("GPT 8.3 bn"), 8300);
    EXPECT_EQ(millions_in("GPT 8.3Bn"), 8300);
    EXPECT_EQ(millions_in("GPT on 300B tokens (1.3B)"), 1300);
    EXPECT_EQ(millions_in("GPT, 2M tokens a batch, 1.3B"), 1300);
    EXPECT_EQ(millions_in("LM, 2 B samples, 50 M parameters"), 50);
    EXPECT_EQ(millions_in("a 1.3B-parameter GPT"), 1300);
    EXPECT_EQ(millions_in("GPT 2.7B, 2048 tokens"), 2700);
    EXPECT_EQ(millions_in("GPT 1T"), 1'000'000);
    EXPECT_EQ(millions_in("MoE 1.6 trillion"), 1'600'000);
    EXPECT_EQ(millions_in("GPT on 1T tokens (1.3B)"), 1300);
    for (const char* name :
         {"Mixtral 8x7B", "Mixtral 8 x 7B", "Mixtral 8*7B", "net 1e3M", "GPT 1,3B", "GPT 0B",
          "GPT, 300B tokens", "LM on 1B words", "transformer 1b-word benchmark",
          "net, 1.28M images", "LM on 1 B Word", "ResNet-50 M60", "ResNet-50 T4"})
        EXPECT_EQ(millions_in(name), 0) << name;
}

// ---- A property of every row --------------------------------------------------------
TEST(ParameterProfiles, SizesThatAreNotReadAreNamed) {
    for (const auto& [name, size] : {std::pair{"Mixtral 8x7B", "8x7B"},
                                     {"net 1e3M", "1e3M"},
                                     {"Mixtral 8 x 7B", "8 x 7B"},
                                     {"GPT 1,3 B", "1,3 B"},
                                     {"GPT 8x7 bn", "8x7 bn"},
                                     {"GPT 1,3billion", "1,3billion"},
                                     {"torch 2.0.1b", ""},
                                     {"GPT, 1,3 B tokens", ""},
                                     {"Mixtral 8*7B", "8*7B"},
                                     {"Mixtral 8\u00d77b", "8\u00d77b"},
                                     {"GPT 1,3B", "1,3B"},
                                     {"GPT-3 0B", "0B"},
                                     {"GPT 1.3B", ""},
                                     {"GPT, 300B tokens", ""},
                                     {"ResNet-50", ""},
                                     {"BERT 2x", ""},
                                     {"", ""}})
        EXPECT_EQ(gx::tools::predict::unread_size(name), size) << name;
}
TEST(ParameterProfiles, SharesAreShares) {
    for (const ParameterProfile& o : parameter_profiles()) {
        EXPECT_EQ(profile_of(o.name), &o) << o.name << ": once, and in plain letters";
        EXPECT_GT(o.millions, 0);
        EXPECT_TRUE(o.first >= 0 && o.last >= 0 && o.first + o.last < 1) << o.name;
    }
}

}  // namespace
