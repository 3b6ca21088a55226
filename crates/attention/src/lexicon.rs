//! The word lists: whole messages that ask for nothing or end something, and openings of clauses that ask for
//! something.
//!
//! The lists are closed and cover the named languages only. A message in another language counts as chat,
//! which is answered, so that no request is missed. The phrases are written in normal spelling and folded
//! once.

use crate::fold;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The meaning of a phrase in a message that consists of such phrases only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whole {
    /// A phrase without a meaning of its own: `so much`, `everybody`.
    Filler,
    Acknowledgement,
    Thanks,
    Approval,
    Cancellation,
}

/// The meaning of a phrase at the beginning of a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    Safety,
    Cancellation,
    ApprovalRequest,
    Request,
    Blocker,
    Question,
    Status,
    /// A status if the phrase stands alone before a colon, and an imperative otherwise.
    Heading,
    /// A verb that assigns work if the message names somebody.
    Imperative,
}

/// A list of folded phrases.
pub(crate) struct Lexicon<T> {
    phrases: HashMap<String, T>,
    /// The number of words in the longest phrase that begins with each word. Most words begin none.
    longest: HashMap<String, usize>,
}

impl<T: Copy> Lexicon<T> {
    fn new(lists: &[(T, &str)]) -> Self {
        let mut lexicon = Self { phrases: HashMap::new(), longest: HashMap::new() };
        for (meaning, list) in lists {
            for phrase in list.split(['|', '\n']) {
                let words = fold::words(phrase);
                if let Some(first) = words.first() {
                    let longest = lexicon.longest.entry(first.clone()).or_default();
                    *longest = words.len().max(*longest);
                    lexicon.phrases.entry(words.join(" ")).or_insert(*meaning);
                }
            }
        }
        lexicon
    }

    /// Returns the meaning of the longest known phrase that `words` begin with, and its number of words.
    pub(crate) fn beginning<W: Borrow<str>>(&self, words: &[W]) -> Option<(T, usize)> {
        let most = words.len().min(*self.longest.get(words.first()?.borrow())?);
        (1..=most).rev().find_map(|length| {
            let meaning = self.phrases.get(words[..length].join(" ").as_str())?;
            Some((*meaning, length))
        })
    }
}

pub(crate) static WHOLE: LazyLock<Lexicon<Whole>> = LazyLock::new(|| Lexicon::new(WHOLE_LISTS));

const WHOLE_LISTS: &[(Whole, &str)] = &[
    (Whole::Thanks, THANKS),
    (Whole::Acknowledgement, ACKNOWLEDGEMENTS),
    (Whole::Approval, APPROVALS),
    (Whole::Cancellation, CANCELLATIONS),
    (Whole::Filler, FILLERS),
];

pub(crate) static OPENINGS: LazyLock<Lexicon<Opening>> = LazyLock::new(|| Lexicon::new(OPENING_LISTS));

const OPENING_LISTS: &[(Opening, &str)] = &[
    (Opening::Safety, SAFETY),
    (Opening::Cancellation, CANCELLING),
    (Opening::ApprovalRequest, APPROVAL_REQUESTS),
    (Opening::Request, REQUESTS),
    (Opening::Blocker, BLOCKERS),
    (Opening::Question, QUESTIONS),
    (Opening::Status, STATUS),
    (Opening::Heading, HEADINGS),
    (Opening::Imperative, IMPERATIVES),
];

/// Phrases that make a clause a request, at any position.
pub(crate) static MARKERS: LazyLock<Lexicon<()>> = LazyLock::new(|| Lexicon::new(&[((), PLEASE)]));

/// Verb endings that make a clause a request in Korean.
pub(crate) static MARKED_ENDINGS: LazyLock<Vec<String>> = LazyLock::new(|| fold::words("주세요 줘 줘요"));

const THANKS: &str = "
    thanks|thank you|thank u|thanks you|thx|thnx|tnx|tx|ty|tysm|tyvm|thanks a lot|thanks so much|thank you so much
    thank you very much
    many thanks|thanks a million|thanks a ton|thanks a bunch|much appreciated|appreciated|appreciate it
    i appreciate it
    we appreciate it|cheers|kudos|great job|good job|nice job|great work|good work|nice work|well done|nicely done
    good bot
    you rock|youre the best|you are the best|awesome thanks|lifesaver|thanks for the help|thanks for your help
    thank you for your help|thanks for that|thanks for this|thanks for everything|thank you for everything
    thanks for the update
    thanks for letting me know|thanks for the info|thanks in advance|bless you|youre welcome|you are welcome
    no problem|np|my pleasure|anytime
    thats kind|that is kind|thats very kind|that is very kind|thats so kind|that is so kind|thats really kind
    that is really kind|that was kind|that was very kind|so kind|very kind|how kind|too kind|youre too kind
    you are too kind|youre very kind|you are very kind|youre so kind|you are so kind|thats helpful|that is helpful
    thats very helpful|that is very helpful|thats really helpful|that is really helpful|that was helpful
    that was very helpful|that was really helpful|this is helpful|this is very helpful|this was very helpful
    very helpful|so helpful|super helpful|really helpful|that helps|that helps a lot|this helps|this helps a lot
    that really helps|that helped|that helped a lot|thats nice|that is nice|thats very nice|that is very nice
    thats so nice|that is so nice|how nice|thats sweet|that is sweet|how sweet|very thoughtful|how thoughtful
    i really appreciate it|i really appreciate that|really appreciate it|i appreciate that|i appreciate your help
    we really appreciate it|much obliged|im grateful|i am grateful|im very grateful|i am very grateful|so grateful
    very grateful|you made my day|you saved my day|exactly what i needed|just what i needed
    thats exactly what i needed|that is exactly what i needed|have a nice day|have a great day|have a good day
    danke|danke schön|danke dir|danke euch|danke ihnen|danke sehr|danke vielmals|vielen dank|vielen lieben dank
    herzlichen dank
    besten dank|tausend dank|lieben dank|dankeschön|merci vielmals|gern geschehen|bitte|bitte schön|bitte sehr
    keine ursache|gute arbeit|gut gemacht|super arbeit
    das ist nett|das ist sehr nett|das ist lieb|das ist sehr lieb|das ist sehr freundlich|sehr nett|sehr lieb
    sehr freundlich|wie nett|das hilft|das hilft mir|das hilft mir sehr|das hat sehr geholfen|sehr hilfreich
    das ist sehr hilfreich|das war sehr hilfreich
    merci|merci beaucoup|merci bien|mille mercis|un grand merci|grand merci|merci à tous|merci à toi|merci à vous
    merci infiniment|de rien|je vous en prie|bon travail|bien joué
    c'est gentil|c'est très gentil|c'est vraiment gentil|c'est très aimable|très gentil|très aimable|très utile
    c'est très utile|ça m'aide beaucoup
    gracias|muchas gracias|muchísimas gracias|mil gracias|gracias a todos|te lo agradezco|se agradece|de nada
    buen trabajo|bien hecho
    muy amable|eres muy amable|es muy amable|es usted muy amable|qué amable|muy útil|me ayuda mucho
    ha sido de gran ayuda
    obrigado|obrigada|muito obrigado|muito obrigada|obrigadão|valeu|brigado|brigada|agradeço|bom trabalho
    muito gentil|é muito gentil|muita gentileza|que gentil|ajudou muito|muito útil
    grazie|grazie mille|molte grazie|tante grazie|mille grazie|grazie a tutti|ti ringrazio|vi ringrazio|prego
    ottimo lavoro|ben fatto
    molto gentile|sei molto gentile|è molto gentile|gentilissimo|gentilissima|che gentile|molto utile
    dank je|dank je wel|dankjewel|dank u|dank u wel|dankuwel|bedankt|hartelijk dank|heel erg bedankt
    hartstikke bedankt|graag gedaan|goed gedaan|goed werk
    heel aardig|dat is heel aardig|erg aardig|heel vriendelijk|dat is heel vriendelijk|heel nuttig
    dzięki|dziękuję|dziękuję bardzo|bardzo dziękuję|wielkie dzięki|dzięki wielkie|dziękujemy|dzięx|nie ma za co
    dobra robota
    bardzo miłe|to bardzo miłe|bardzo miło|to bardzo miło|bardzo pomocne|to bardzo pomocne
    спасибо|спасибо большое|большое спасибо|огромное спасибо|спасибо огромное|спс|благодарю|спасибо вам|спасибо тебе
    спасибо всем|пожалуйста|не за что|отличная работа|молодец
    очень мило|это очень мило|очень любезно|это очень любезно|вы очень добры|ты очень добр|очень помогло|очень помогли
    дякую|дуже дякую|дякую дуже|щиро дякую|красно дякую|дякую вам|дякую тобі|дякуємо|нема за що|гарна робота|молодці
    дуже мило|це дуже мило|дуже люб'язно|це дуже люб'язно|дуже допомогло
    teşekkürler|teşekkür ederim|teşekkür ederiz|çok teşekkürler|çok teşekkür ederim|sağ ol|sağol|sağ olun|eyvallah
    tşk|rica ederim|bir şey değil|eline sağlık|ellerine sağlık
    çok naziksiniz|çok naziksin|çok kibarsınız|çok kibarsın|çok yardımcı oldu
    谢谢|謝謝|谢谢你|謝謝你|谢谢您|謝謝您|谢谢大家|謝謝大家|多谢|多謝|感谢|感謝|非常感谢|非常感謝|十分感谢|谢了|謝了
    谢啦|辛苦了|不客气|不客氣|干得好|做得好
    你真好|您真好|你人真好|真好|太客气了|太感谢了|太谢谢了|非常有帮助|很有帮助|帮大忙了
    ありがとう|ありがとうございます|ありがとうございました|どうもありがとう|どうもありがとうございます|どうも|有難う
    有難うございます|感謝します|サンキュー|お疲れ様|お疲れ様です|お疲れ様でした|助かりました|助かります
    どういたしまして
    ご親切に|とても助かりました|本当に助かりました|とても親切ですね
    감사합니다|감사해요|감사|고마워|고마워요|고맙습니다|정말 감사합니다|대단히 감사합니다|땡큐|수고하셨습니다
    수고했어|수고했어요|천만에요
    정말 친절하시네요|친절하시네요|큰 도움이 됐어요|큰 도움이 되었습니다|많은 도움이 됐어요
    धन्यवाद|बहुत धन्यवाद|बहुत बहुत धन्यवाद|आपका धन्यवाद|शुक्रिया|बहुत शुक्रिया|बहुत बहुत शुक्रिया|आभार|थैंक्स|थैंक यू
    dhanyavaad|dhanyavad|shukriya
    आप बहुत दयालु हैं|बहुत मदद मिली|बहुत मददगार
    شكرا|شكرا لك|شكرا لكم|شكرا جزيلا|شكرا كثيرا|ألف شكر|جزيل الشكر|مشكور|مشكورين|تسلم|يسلمو|جزاك الله خيرا|عفوا
    أحسنت
    لطف منك|هذا لطف منك|هذا لطيف جدا|أنت لطيف جدا|مفيد جدا
    🙏|❤|🧡|💛|💚|💙|💜|🖤|💖|💐|🌹|🥰|😍|🤗|🙇|🎉|🥳|👏|🙌|💪|🏆|⭐|🌟";

const ACKNOWLEDGEMENTS: &str = "
    ok|okay|okey|okie|okidoki|oki|k|kk|okok|got it|gotcha|i got it|got that|understood|i understand|noted|duly noted
    roger|roger that|copy|copy that|ack|acked|acknowledged
    lgtm|looks good|looks good to me|sounds good|sounds great|sounds like a plan|all good|all right|alright|fine
    perfect|great|good|nice|cool|awesome|excellent|amazing|wonderful|fantastic|brilliant|lovely|super
    sure|sure thing|of course|will do|on it|im on it|i am on it|works for me|makes sense|i see|ah i see|oh i see
    right|agreed|i agree|exactly|indeed|true|fair enough|good point|good to know
    received|seen|read|wow|haha|hahaha|lol|yay|yup got it|very good|very well|wilco|aye|aye aye|no worries
    thats great|that is great|thats fine|that works
    verstanden|alles klar|alles gut|klar|in ordnung|okeydokey|passt|passt so|passt schon|gut|sehr gut|super|prima
    perfekt|einverstanden|geht klar|mach ich|wird gemacht|jawohl|stimmt|genau|notiert|sieht gut aus|gesehen
    compris|bien reçu|reçu|d'accord|entendu|c'est noté|noté|parfait|très bien|ça marche|super|génial|c'est bon
    bien vu|vu|exact
    entendido|de acuerdo|vale|recibido|perfecto|muy bien|está bien|genial|anotado|claro|comprendido
    bueno|visto
    entendi|entendido|combinado|beleza|blz|tá bom|está bem|certo|perfeito|ótimo|muito bem|anotado|recebido
    claro|visto
    capito|ho capito|va bene|d'accordo|ricevuto|perfetto|ottimo|benissimo|certo|inteso|visto|tutto chiaro|bene
    begrepen|duidelijk|prima|goed|helemaal goed|in orde|akkoord|genoteerd|komt goed|oké|top|perfect|ontvangen|gezien
    is goed
    rozumiem|zrozumiałem|zrozumiałam|jasne|dobra|dobrze|w porządku|okej|przyjąłem|przyjęte|super|świetnie|zgoda
    odebrałem|spoko
    понял|поняла|понятно|ясно|хорошо|ладно|окей|ок|принято|принял|приняла|договорились|отлично|супер|согласен
    согласна|ага|угу|вижу|класс
    зрозумів|зрозуміла|зрозуміло|ясно|добре|гаразд|окей|ок|прийнято|домовились|домовилися|чудово|супер|згоден|згодна
    бачу|клас
    tamam|tamamdır|anladım|anlaşıldı|peki|oldu|olur|süper|harika|güzel|mükemmel|aynen|kabul|gördüm|not aldım|elbette
    好|好的|好吧|好哒|好滴|行|可以|没问题|沒問題|知道了|明白|明白了|了解|收到|懂了|嗯|嗯嗯|好的好的|已阅|不错|很好
    太好了|完美|赞|ok的|没事
    了解|了解です|了解しました|承知しました|承知いたしました|かしこまりました|わかりました|分かりました|わかった
    分かった|はい|オーケー|オッケー|大丈夫です|なるほど|いいね|いいですね|ラジャー|りょ|り|確認しました|うん
    完璧です
    알겠습니다|알겠어요|알겠어|알았어|알았어요|네|넵|넹|예|응|오케이|ㅇㅋ|ㅇㅇ|확인|확인했습니다|확인했어요|좋아요
    좋아|좋습니다|이해했습니다|그래|그래요|완벽해요
    ठीक है|ठीक|अच्छा|समझ गया|समझ गई|समझ गए|जी|जी हाँ|हाँ ठीक है|बढ़िया|बहुत अच्छा|मिल गया|ओके|theek hai|thik hai|accha
    samajh gaya
    حسنا|تمام|فهمت|مفهوم|طيب|ماشي|موافق|واضح|استلمت|وصل|ممتاز|رائع|جيد|أوكي|اوكي|حاضر|علم|جميل
    👍|✅|👌|🆗|✔|☑|💯|🫡|👀|🤝|🙂|😀|😃|😄|😁|😊|😎|🚀|🔥|✨|🤙|😂|🤣|👋";

const APPROVALS: &str = "
    approved|i approve|you have my approval|go ahead|please go ahead|go for it|ship it|permission granted|granted
    you may proceed|please proceed|proceed|youre good to go|good to go|green light|do it|please do|yes please
    genehmigt|freigegeben|ich genehmige|mach das|mach weiter|nur zu|approuvé|j'approuve|vas y|allez y|aprobado
    apruebo|adelante|procede|dale|aprovado|aprovo|pode seguir|pode prosseguir|vai em frente
    approvato|approvo|procedi|vai pure|goedgekeurd|ga je gang|ga door|zatwierdzone|zatwierdzam|działaj|одобрено
    одобряю|разрешаю|действуй|давай|схвалено|схвалюю|дозволяю|дій|onaylandı|onaylıyorum|devam et|onay verildi
    批准|已批准|同意|我同意|可以开始|去做吧|承認|承認します|承認しました|進めてください|どうぞ|승인|승인합니다
    승인했습니다|진행하세요|진행해 주세요|स्वीकृत|मंज़ूर|मंजूर है|आगे बढ़ो|موافقة|تمت الموافقة|أوافق|تفضل|انطلق";

const CANCELLATIONS: &str = "
    stop|stop it|stop that|stop this|stop now|stop everything|stop immediately|stop right now|stop working
    stop please|cancel|cancel it|cancel that|cancel this|abort|abort it|abort that|halt
    never mind|nevermind|nvm|forget it|forget about it|forget that|scratch that|disregard|disregard that|ignore that
    ignore my last message|dont do it|dont do that|do not do it|do not do that|no longer needed|not needed anymore
    dont bother
    stopp|anhalten|aufhören|hör auf|abbrechen|abbruch|brich ab|brich das ab|stornieren|vergiss es|schon gut|egal
    lass es|lass gut sein|hat sich erledigt
    arrête|arrêtez|arrête ça|stoppe|annule|annulez|annule ça|laisse tomber|laissez tomber|oublie|oublie ça
    peu importe|laisse
    para|detente|deténgase|alto|cancela|cancélalo|cancelar|olvídalo|déjalo|no importa|no hace falta
    pare|parar|cancele|cancela isso|esquece|esqueça|deixa pra lá|não precisa|deixa
    fermati|fermo|ferma|basta|annulla|annullalo|lascia perdere|lascia stare|non importa|non serve più
    hou op|ophouden|annuleer|annuleren|laat maar|vergeet het|niet meer nodig
    przestań|zatrzymaj|zatrzymaj się|anuluj|anuluj to|nieważne|daj spokój|zapomnij|już nie trzeba
    стоп|стой|остановись|остановить|хватит|прекрати|отмена|отмени|отменить|отбой|неважно|забудь|не надо|уже не нужно
    зупинись|зупини|досить|припини|скасуй|скасувати|скасовано|відміна|неважливо|забудь|не треба|вже не потрібно
    dur|durdur|yeter|iptal|iptal et|vazgeç|vazgeçtim|boş ver|boşver|unut gitsin|gerek yok
    停|停止|停下|停一下|住手|取消|取消吧|算了|不用了|别做了|中止|打住
    止めて|やめて|止まって|ストップ|中止|中止して|キャンセル|キャンセルして|取り消し|取り消して|やっぱりいいです
    もういいです|忘れて
    멈춰|멈춰요|멈추세요|그만|그만해|그만해요|중지|중단|중단해|취소|취소해|취소해줘|취소해 주세요|됐어요|됐어
    잊어버려
    रुको|रुकिए|रुक जाओ|बंद करो|रद्द करो|रद्द|रहने दो|रहने दीजिए|छोड़ो|कोई बात नहीं
    توقف|توقفي|توقفوا|قف|أوقف|الغاء|إلغاء|ألغ|ألغي|ألغه|لا داعي|انس الأمر|لا يهم|خلاص
    🛑|⛔";

const FILLERS: &str = "
    so much|very much|a lot|a bunch|again|everyone|everybody|all|you all|yall|guys|folks|team|both|man|mate|buddy
    friend|friends|dear|sir|boss|you|too|also|then|so|well|oh|ah|aha|hm|hmm|yeah|yes|yep|yup|please|now|it|that|this
    really|for the help|for your help|for that|for this|for now|for everything|for the info|for the update
    for letting me know|for the quick reply|for the quick response|for checking|for looking|for fixing
    for doing this|hi|hello|hey|and|but|just|to|me|very|such
    of you|from you|for your time|for your support|for your patience|for your work|for all your help
    for the quick answer|for your quick reply|von dir|von ihnen|von euch|für die mühe|für deine mühe
    für die schnelle antwort|de ta part|de votre part|de tu parte|de su parte|da sua parte|da parte tua
    da parte sua|z twojej strony|с твоей стороны|с вашей стороны|з твого боку|з вашого боку
    alle|allen|euch|dir|dann|ja|und|auch|sehr|leute|nochmal|für die hilfe|für deine hilfe|für alles|tous|toutes
    tout le monde|oui|et|pour ton aide|pour votre aide|pour tout|alors|bonjour|todos|todas|sí|y|por todo
    por la ayuda|por tu ayuda|hola|sim|e|pela ajuda|por tudo|pessoal|tutti|tutte|sì|per tutto|per l'aiuto|ciao
    allemaal|jullie|en|voor de hulp|wszystkim|wszystko|za wszystko|za pomoc|tak|i|всем|да|и|за помощь|за всё|вам
    тебе|всім|так|і|та|за допомогу|за все|herkese|evet|ve|çok|her şey için|大家|你们|您|你|啊|呀|啦|哦|了|吧|的|さん
    です|ます|ね|よ|皆さん|みなさん|本当に|정말|모두|여러분|सभी|सबको|आप|आपको|बहुत|لك|لكم|جميعا|نعم|و|جدا";

const SAFETY: &str = "
    emergency|this is an emergency|safety issue|safety incident|safety alert|safety problem|safety|danger|dangerous
    security incident|security breach|security alert|data breach|data leak|we have been hacked|weve been hacked
    we have been breached|credentials leaked|credentials were leaked|secrets leaked|somebody is in danger
    someone is in danger|🚨|☢|☣
    notfall|sicherheitsvorfall|gefahr|urgence|incident de sécurité|danger|emergencia|incidente de seguridad|peligro
    emergência|incidente de segurança|perigo|emergenza|incidente di sicurezza|pericolo|noodgeval
    beveiligingsincident|gevaar|nagły wypadek|incydent bezpieczeństwa|niebezpieczeństwo
    авария|чрезвычайная ситуация|инцидент безопасности|опасность|надзвичайна ситуація|інцидент безпеки|небезпека
    acil durum|güvenlik olayı|tehlike|紧急情况|緊急情況|安全事故|危险|緊急事態|セキュリティ事故|危険|비상|비상사태
    보안 사고|위험|आपातकाल|आपातस्थिति|खतरा|طوارئ|حالة طوارئ|خطر";

const CANCELLING: &str = "
    stop the|stop this|stop that|stop it|stop all|stop everything|stop working|stop doing|stop what|stop your
    stop any|stop now|stop immediately|stop deploying|stop running|stop posting|stop sending|stop replying
    stop writing|stop talking|stop responding
    cancel the|cancel this|cancel that|cancel it|cancel all|cancel my|cancel your|cancel everything|cancel any
    abort the|abort this|abort that|abort it|abort all|halt the|halt all|halt everything|never mind|nevermind
    forget about the|forget the|disregard the|disregard my|ignore my last|ignore my previous|dont do|do not do
    dont proceed|do not proceed|dont deploy|do not deploy
    brich den|brich die|brich das|stopp den|stopp die|stopp das|hör auf mit|arrête le|arrête la|arrête de
    arrête tout|annule le|annule la|para el|para la|para de|cancela el|cancela la|cancela o|cancela a|ferma il
    ferma la|annulla il|annulla la|stop met|annuleer de|annuleer het|zatrzymaj|anuluj|останови|отмени|прекрати
    зупини|скасуй|припини";

const APPROVAL_REQUESTS: &str = "
    may i|can i|shall i|should i|could i|shall we|ok to|okay to|ok if i|okay if i|is it ok|is it okay|is it ok if
    permission to|requesting permission|requesting approval|request for approval|approval request|approval needed
    approval required|needs approval|need approval|need your approval|i need your approval|i need approval
    waiting for approval|waiting for your approval|awaiting approval|awaiting your approval|do you approve
    please approve|pls approve|can you approve|could you approve|do i have permission|am i allowed
    darf ich|soll ich|bitte genehmigen|bitte um freigabe|freigabe erbeten|puis-je|dois-je|merci d'approuver|puedo
    debo|solicito aprobación|posso|devo|solicito aprovação|chiedo approvazione|mag ik|zal ik|graag goedkeuring
    czy mogę|mogę|proszę o zatwierdzenie|можно ли мне|можно мне|прошу одобрить|прошу согласовать|чи можу я
    можна мені|прошу погодити|yapabilir miyim|onaylar mısın|onayınızı bekliyorum|我可以|请批准|請批准|请审批
    してもいいですか|承認をお願いします|承認お願いします|승인 부탁드립니다|승인해 주세요|क्या मैं|कृपया मंज़ूरी दें
    هل يمكنني|هل أستطيع|أرجو الموافقة";

const REQUESTS: &str = "
    can you|could you|would you|will you|can u|could u|can someone|could someone|can anyone|could anyone|can we
    could we|would you mind|i need you to|i want you to|id like you to|i would like you to|you should|you need to
    your task|your job|todo|to do|task|assigned to you|assigning|make sure|lets
    kannst du|könntest du|können sie|könnten sie|würdest du|würden sie|könnt ihr|peux-tu|pouvez-vous|pourrais-tu
    pourriez-vous|tu peux|vous pouvez|puedes|podrías|puede|podría|pueden|você pode|pode|poderia|consegue|puoi
    potresti|può|potrebbe|potete|kun je|kan je|kunt u|kun jij|zou je|wil je|możesz|mógłbyś|mogłabyś|czy możesz
    czy mógłbyś|możecie|можешь|можете|мог бы|могла бы|не мог бы|сможешь|можеш|чи можеш|зможеш|yapabilir misin
    bakabilir misin|yapar mısın|请|請|你能|你可以|能不能|可以帮|帮我|麻烦你|麻烦|需要你|हो सके तो|क्या आप|क्या तुम
    هل يمكنك|هل تستطيع|ممكن|أريدك أن";

const BLOCKERS: &str = "
    blocked|i am blocked|im blocked|we are blocked|were blocked|blocker|blocking issue|i am stuck|im stuck
    we are stuck|stuck on|stuck at|i cannot proceed|i cant proceed|i cannot continue|i cant continue|cannot proceed
    cant proceed|cannot continue|cant continue|unable to proceed|unable to continue|i need input|need input
    waiting on you|im waiting on you|🚧
    blockiert|ich bin blockiert|ich komme nicht weiter|wir kommen nicht weiter|bloqué|je suis bloqué|je suis bloquée
    bloqueado|estoy bloqueado|estoy bloqueada|estou bloqueado|estou bloqueada|bloccato|sono bloccato|sono bloccata
    geblokkeerd|ik zit vast|ik kan niet verder|zablokowany|jestem zablokowany|utknąłem|utknęłam|заблокировано
    я застрял|я застряла|не могу продолжать|заблоковано|я застряг|я застрягла|не можу продовжувати|takıldım
    engellendim|devam edemiyorum|我卡住了|卡住了|被阻塞|无法继续|ブロックされています|進められません
    行き詰まりました|막혔습니다|막혔어요|진행할 수 없습니다|मैं अटक गया|मैं अटका हूँ|أنا عالق|لا أستطيع المتابعة";

const QUESTIONS: &str = "
    what|whats|what's|why|how|hows|who|whos|whose|whom|where|wheres|when|whens|which|any idea|any ideas|any news
    any update|any updates|anyone know|anybody know|does anyone|does anybody|has anyone|is anyone|is anybody
    did anyone
    is it|is this|is that|is there|is the|is he|is she|are you|are we|are they|are there|are the|are these|are those
    was it|was this|was that|was there|was the|were you|were we|were they|were there|am i|do you|do we|do they|do i
    does it|does this|does that|does the|did you|did we|did they|did it|did the|have you|have we|have they|has it
    has the|has this|had you|will it|will this|will the|will that|would it|would that|should we|should it|can it
    could it|could this|isnt it|isnt this|arent you|dont you|didnt you|wouldnt it
    was ist|wie|warum|wieso|weshalb|wer|wo ist|wann|welche|welcher|welches|gibt es|ist das|hast du|bist du|pourquoi
    comment|quand|quel|quelle|quels|qui est|où|est-ce que|qu'est-ce|qué|por qué|cómo|cuándo|dónde|cuál|quién|o que
    por que|como|quando|onde|qual|quem|che cosa|cosa|perché|come mai|dove|quale|chi è|waarom|hoe|wanneer|waar|welke
    wie is|wat|dlaczego|jak|kiedy|gdzie|który|kto|czy|почему|как|когда|где|кто|что|зачем|сколько|чому|як|коли|де|хто
    що|навіщо|скільки|neden|nasıl|ne zaman|nerede|kim|hangi|什么|为什么|怎么|怎样|如何|谁|哪里|哪个|何时|なぜ
    どうして|どう|いつ|どこ|誰|何|왜|어떻게|언제|어디|누가|무엇|क्या|क्यों|कैसे|कब|कहाँ|कौन|لماذا|كيف|متى|أين|من هو
    ماذا|هل";

const STATUS: &str = "
    status update|status report|progress update|fyi|for your information|for information|heads up|daily update
    weekly update|release notes|zur info|zur kenntnis|pour info|para información|para informação|per informazione
    ter info|dla informacji|для информации|для інформації|bilginize|仅供参考|ご参考まで|참고로|सूचना के लिए|للعلم";

const HEADINGS: &str = "
    status|update|standup|stand-up|changelog|announcement|zwischenstand|statusbericht|mise à jour|actualización
    atualização|aggiornamento|aktualizacja|статус|обновление|оновлення|durum|状态|进度更新|状況|상태|स्थिति|الحالة
    تحديث";

const IMPERATIVES: &str = "
    add|address|analyse|analyze|answer|apply|approve|archive|ask|assign|attach|audit|benchmark|build|bump|call
    change|check|clean|close|collect|compare|compile|confirm|continue|convert|copy|create|debug|decide|delete|deploy
    describe|design|disable|do|document|download|draft|edit|enable|estimate|evaluate|examine|explain|export|extract
    fetch|figure|fill|find|finish|fix|follow|format|generate|get|give|go|grab|handle|help|implement|import|improve
    inspect|install|investigate|join|keep|kill|label|list|load|look|make|measure|merge|migrate|monitor|move|open
    optimize|patch|ping|plan|post|prepare|print|propose|provide|publish|pull|push|put|read|rebase|rebuild|refactor
    release|remove|rename|render|repeat|replace|reply|report|reproduce|rerun|research|reset|resolve|respond|restart
    restore|retry|revert|review|rewrite|roll|run|save|scan|schedule|search|send|set|share|show|sign|sort|split|start
    submit|suggest|summarise|summarize|switch|take|tell|test|track|translate|triage|try|turn|undo|upgrade|upload|use
    validate|verify|wait|watch|write";

const PLEASE: &str = "
    please|pls|plz|kindly|bitte|s'il te plaît|s'il vous plaît|stp|svp|por favor|per favore|per piacere|alsjeblieft
    alstublieft|graag|proszę|пожалуйста|будь ласка|прошу|lütfen|请你|請你|ください|下さい|お願いします
    お願いいたします|頼む|부탁해|부탁해요|부탁드립니다|부탁합니다|주세요|줘|줘요|कृपया|من فضلك|لو سمحت|رجاء|أرجو";

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// Checks that no phrase is in two lists, is lost by folding, or is split by a sign that ends a clause.
    fn check<T: Copy + PartialEq + Debug>(lexicon: &Lexicon<T>, lists: &[(T, &str)]) {
        let mut wrong = vec![];
        for (meaning, list) in lists {
            for phrase in list.split(['|', '\n']).map(str::trim).filter(|phrase| !phrase.is_empty()) {
                let words = fold::words(phrase);
                if lexicon.beginning(&words) != Some((*meaning, words.len())) {
                    wrong.push((phrase, *meaning, lexicon.beginning(&words)));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    #[test]
    fn every_phrase_is_found_and_means_one_thing() {
        check(&WHOLE, WHOLE_LISTS);
        check(&OPENINGS, OPENING_LISTS);
        check(&MARKERS, &[((), PLEASE)]);
    }
}
