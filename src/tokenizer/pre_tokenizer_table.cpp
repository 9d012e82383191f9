#include "src/tokenizer/pre_tokenizer_table.hpp"

namespace yamata {
namespace {

// The patterns are those of the publishers' tokenizer.json, or of tiktoken. llama.cpp's regular expressions have no classes such as \p{Lu},
// so some of its patterns differ for letters outside ASCII. Adjacent literals are one pattern.
#define YAMATA_CONTRACTIONS R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|)"
#define YAMATA_WORDS R"([^\r\n\p{L}\p{N}]?\p{L}+|)"
#define YAMATA_SIGNS R"( ?[^\s\p{L}\p{N}]+[\r\n]*|)"
#define YAMATA_SPACES R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
// o200k_base of tiktoken: words of capitals and small letters, or of capitals alone, with an ending.
#define YAMATA_CASED(ending)                                                               \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" ending \
  "|"                                                                                      \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" ending "|"
#define YAMATA_ENDING "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define YAMATA_PATHS R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|)"
// DeepSeek V3's words and signs.
#define YAMATA_DEEPSEEK_WORDS R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+)"
#define YAMATA_KANA_AND_HAN R"([\x{4e00}-\x{9fa5}\x{3040}-\x{30ff}]+)"

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";
constexpr const char* kLlama3 = YAMATA_CONTRACTIONS YAMATA_WORDS R"(\p{N}{1,3}|)" YAMATA_SIGNS YAMATA_SPACES;
constexpr const char* kQwen2 = YAMATA_CONTRACTIONS YAMATA_WORDS R"(\p{N}|)" YAMATA_SIGNS YAMATA_SPACES;
constexpr const char* kQwen35 =
    YAMATA_CONTRACTIONS R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" YAMATA_SPACES;
constexpr const char* kUfakzeka = YAMATA_WORDS R"(\p{N}|)" YAMATA_SIGNS YAMATA_SPACES;  // Turkish: endings follow an apostrophe
constexpr const char* kMinicpm5 = YAMATA_CONTRACTIONS YAMATA_WORDS R"(\p{N}+|)" YAMATA_SIGNS YAMATA_SPACES;
constexpr const char* kSeedCoder = YAMATA_CONTRACTIONS YAMATA_WORDS R"(\p{N}| ?[^\s\p{L}\p{N}\r\n]+|)" YAMATA_SPACES;
constexpr const char* kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kJais2 =  // white space in pieces of powers of two
    YAMATA_CONTRACTIONS YAMATA_WORDS R"(\p{N}{1,3}|)" YAMATA_SIGNS
                                     R"(\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|)"
                                     R"(\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
constexpr const char* kExaoneMoe =  // words with single spaces between them are one piece
    YAMATA_CONTRACTIONS R"([^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kO200k = YAMATA_CASED(YAMATA_ENDING) R"(\p{N}{1,3}|)" YAMATA_PATHS YAMATA_SPACES;
constexpr const char* kTekken = YAMATA_CASED("") R"(\p{N}|)" YAMATA_PATHS YAMATA_SPACES;
constexpr const char* kYoutu = YAMATA_CASED(YAMATA_ENDING) R"(\p{N}|)" YAMATA_PATHS YAMATA_SPACES;
constexpr const char* kYoutuScripts =
    R"([\x{ac00}-\x{d7a3}\x{3131}-\x{318e}]+|)"
    R"([\x{ff01}\x{2026}\x{201c}\x{201d}\x{2018}\x{2019}\x{2014}\x{ff1a}\x{ff1b}\x{ff0c}\x{3001}-\x{303f}\x{fe30}-\x{fe4f}]+|)"
    R"([\x{3105}-\x{312f}]+|)" YAMATA_KANA_AND_HAN;
#define YAMATA_CAPITALS R"((?:(?!\p{sc:Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]))"
#define YAMATA_SMALL R"((?:(?!\p{sc:Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}]))"
constexpr const char* kKimi = R"(\p{sc:Han}+|)"  // as o200k, with Chinese characters in pieces of their own
                              R"([^\r\n\p{L}\p{N}]?)" YAMATA_CAPITALS "*" YAMATA_SMALL "+" YAMATA_ENDING
                              "|"
                              R"([^\r\n\p{L}\p{N}]?)" YAMATA_CAPITALS "+" YAMATA_SMALL "*" YAMATA_ENDING
                              "|"
                              R"(\p{N}{1,3}|)" YAMATA_SIGNS YAMATA_SPACES;
constexpr const char* kDeepseekV3 = YAMATA_DEEPSEEK_WORDS R"([\r\n]*|)" YAMATA_SPACES;
constexpr const char* kSpark = YAMATA_DEEPSEEK_WORDS R"(|[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kAfmoeScripts =
    R"([\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{f900}-\x{faff}\x{3040}-\x{30ff}\x{ff65}-\x{ff9f}\x{2f00}-\x{2fdf}\x{e40}-\x{e7f})"
    R"(\x{e80}-\x{eff}\x{1780}-\x{17ff}\x{1000}-\x{109f}\x{aa60}-\x{aa7f}\x{a9e0}-\x{a9ff}\x{ac00}-\x{d7af}\x{1100}-\x{11ff}]+)";
constexpr const char* kBloom = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c})]+)";
constexpr const char* kLines = "[^\n]+|\n+";
// Cased letters of the Unicode version with which DeepSeek's vocabulary was trained.
constexpr const char* kDeepseekLetters =
    R"(\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373})"
    R"(\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481})"
    R"(\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf})"
    R"(\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45})"
    R"(\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe})"
    R"(\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc})"
    R"(\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134})"
    R"(\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee})"
    R"(\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf})"
    R"(\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3})"
    R"(\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943}]+)";
constexpr const char* kDeepseekSigns = R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)";
constexpr const char* kDeepseekIdeographs = R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";
// Not before what belongs to a word in the sense of \b, which includes circled letters.
constexpr const char* kWholeNumber =
    R"((?<!\p{Nd})\p{Nd}++(?![\p{L}\p{M}\p{N}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}]))";
constexpr const char* kDeepseekDigits = R"(\p{N}{1,3})";

using Rows = std::vector<PreTokenizerRow>;
using Cut = Split::Cut;

/// Those that follow GPT-2's.
Rows gpt2_rows() {
  return {
      {.names = {"default"}, .splits = {{R"([\p{P}\$\+<=>\^~\|]+)"}, {kGpt2}, {R"(\p{N}+)"}, {"[0-9][0-9][0-9]"}}},
      {.names = {"falcon"}, .splits = {{R"([\p{P}\$\+<=>\^~\|`]+)"}, {kGpt2}, {"[0-9][0-9][0-9]"}}},
      {.names = {"gpt-2", "phi-2", "olmo", "mpt", "jais", "trillion", "granite-docling", "exaone4", "gigachat", "a.x-4.0", "mellum",
                 "modern-bert", "roberta-bpe", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de", "jina-v2-code"},
       .splits = {{kGpt2}}},
      {.names = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
       .splits = {{R"(\p{N})"}, {kGpt2}}},
      {.names = {"chameleon"},
       .splits = {{"<sentinel:[0-9]+>"}, {"IMGIMG[A-I]{1,4}Z"}, {"[\t\n]|    |  "}, {R"(\p{N})"}, {R"([\p{P}!-/:-@\[-`{-~])"}, {kGpt2}},
       .adds_bos = true},
  };
}

/// Those that follow Llama 3's, which is cl100k_base of tiktoken.
Rows llama3_rows() {
  return {
      {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
       .splits = {{kLlama3}},
       .whole_pieces = true,
       .adds_bos = true},
      {.names = {"dbrx", "smaug-bpe", "chatglm-bpe"}, .splits = {{kLlama3}}},
      {.names = {"glm4"}, .splits = {{kLlama3}}, .whole_pieces = true},
      {.names = {"jais-2"}, .splits = {{kJais2}}},
      {.names = {"qwen2", "stablelm2", "deepseek-r1-qwen", "hunyuan", "solar-open", "grok-2", "megrez", "kormo", "f2llmv2"},
       .splits = {{kQwen2}}},
      {.names = {"qwen35"}, .splits = {{kQwen35}}},
      {.names = {"laguna"}, .splits = {{kLines}, {kQwen2}}},
      {.names = {"ufakzeka"}, .splits = {{kUfakzeka}}},
      {.names = {"seed-coder"}, .splits = {{kSeedCoder}}},
      {.names = {"bailingmoe", "bailingmoe2", "llada-moe"}, .splits = {{kBailing}}},
      {.names = {"exaone-moe"}, .splits = {{kExaoneMoe}}},
      {.names = {"minicpm5"}, .splits = {{kDeepseekDigits}, {kMinicpm5}}, .whole_pieces = true},
  };
}

/// Those that follow o200k_base of tiktoken.
Rows o200k_rows() {
  return {
      {.names = {"gpt-4o", "llama4", "minimax-m2", "kanana2", "talkie"}, .splits = {{kO200k}}},
      {.names = {"granite-embed-multi-97m"}, .splits = {{kO200k}}, .whole_pieces = true},
      {.names = {"tekken"}, .splits = {{kTekken}}, .whole_pieces = true, .adds_bos = true},
      {.names = {"kimi-k2"}, .splits = {{kKimi}}},
      {.names = {"youtu"}, .splits = {{kYoutuScripts}, {kYoutu}}, .whole_pieces = true},
      // Digits by threes from the right where no letter follows them.
      {.names = {"tiny_aya", "cohere2moe"}, .splits = {{kWholeNumber, Cut::kMatchesByThrees}, {kO200k}}},
  };
}

/// DeepSeek's and their followers.
Rows deepseek_rows() {
  return {
      {.names = {"deepseek-llm"},
       .splits = {{"[\r\n]"}, {kDeepseekLetters}, {kDeepseekSigns}, {R"(\s+$)"}, {kDeepseekIdeographs}, {R"(\p{N}+)"}}},
      {.names = {"deepseek-coder"}, .splits = {{"[\r\n]"}, {R"(\s?\p{L}+)"}, {R"(\s?\p{P}+)"}, {kDeepseekIdeographs}, {R"(\p{N})"}}},
      {.names = {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       .splits = {{kDeepseekDigits}, {YAMATA_KANA_AND_HAN}, {kDeepseekV3}}},
      {.names = {"spark2_5"}, .splits = {{kDeepseekDigits}, {YAMATA_KANA_AND_HAN}, {kSpark}, {R"(\p{N})"}}},
      {.names = {"afmoe"}, .splits = {{R"(\p{N}+)", Cut::kMatchesByThrees}, {kAfmoeScripts}, {kDeepseekV3}}},
  };
}

Rows other_rows() {
  return {
      {.names = {"bloom", "poro-chat", "gpt3-finnish"}, .splits = {{kBloom}}},
      {.names = {"viking"}, .splits = {{kBloom}, {R"(\p{N})"}}},
      {.names = {"superbpe"}, .splits = {{R"(\p{N}+)"}, {R"(\p{Nd}+)", Cut::kInMatchesByThrees}}},
      {.names = {"gemma4", "granite-embed-multi-311m"}, .splits = {{kLines}}, .raw = true, .whole_lines = true, .forces_bos = true},
      {.names = {"sarvam-moe"}, .splits = {{kLines}}, .raw = true},
  };
}

}  // namespace

const std::vector<PreTokenizerRow>& pre_tokenizer_table() {
  static const Rows table = [] {
    Rows all;
    for (const Rows& rows : {gpt2_rows(), llama3_rows(), o200k_rows(), deepseek_rows(), other_rows()})
      all.insert(all.end(), rows.begin(), rows.end());
    return all;
  }();
  return table;
}

}  // namespace yamata
